"""The tests of the lab; they mirror the packages they test."""
