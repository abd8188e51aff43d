//! Workers: start, list, show, inspect, stop, restart, handoff, continue.
