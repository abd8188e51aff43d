//! The config file and `config init`.
