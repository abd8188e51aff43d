//! Where the config, the workspace and the state dir are.
