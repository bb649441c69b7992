"""When what ran where: intervals, joins, busy and idle time, ranges, launches, overlap, stacks."""
