//! The evaluator: a compiled script and a message to effects.

mod actions;
mod fault;
mod flags;
mod machine;
mod mime;
mod replies;
mod results;
mod steps;
mod tests;
mod trial;
mod values;
mod variables;
