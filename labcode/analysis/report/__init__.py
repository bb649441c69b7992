"""Files of one run in; one document on where its time goes out: for people, for pull requests, for machines."""
