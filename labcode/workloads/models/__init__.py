"""What the programs run: models, loaders, pictures."""
