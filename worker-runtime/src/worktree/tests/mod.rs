//! Tests with the real git, in repositories of every kind.

mod create;
mod discard;
mod land;
mod look;
mod plan;
mod property;
mod states;
mod world;
