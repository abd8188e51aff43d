//! Agents that behave strangely.
