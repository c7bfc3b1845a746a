"""One of several processes of `almanac serve`, which starts it by `python -m` and tells it by stdin what to serve."""

if __name__ == "__main__":
    from almanac.cli.logs import configure_logs
    from almanac.serve.fleet import work

    configure_logs()
    work()
