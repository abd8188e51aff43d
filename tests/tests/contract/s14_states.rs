//! States of workers.
