"""What a GPU machine without network lacks in, one file to carry there out; and what unpacks it there."""
