"""What happens to versions after publication: prune, rebuild, takedown, promote."""
