"""Two captures side by side: ratios with intervals, what is new and what is gone."""
