//! Types of events and their data.
