// The page's parts before anybody asked.
() => ({
  address: location.href,
  ids: [...document.querySelectorAll("[id]")].map(({ id }) => id),
  counts: Object.fromEntries(
    `script style link meta base title form input textarea template dialog iframe frame img object embed video audio math canvas select option fieldset label nav main`
      .split(" ")
      .map((name) => [name, document.getElementsByTagName(name).length]),
  ),
})
