"""What the commands do that read files, a module or a package each, going by what formats declare."""
