"""Energy: power logs in; joules with error bars, efficiency, models of power out."""
