"""Files of one run in; a document on where its time goes out: for people, pull requests, machines."""
