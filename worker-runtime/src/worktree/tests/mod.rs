//! Tests with the real git, in repositories of every kind.

mod blob;
mod create;
mod discard;
mod exchange;
mod land;
mod look;
mod plan;
mod processes;
mod property;
mod states;
mod templates;
mod world;
