"""What the programs run: models, loaders, pictures, made-up exports, timings."""
