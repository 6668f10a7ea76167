//! What is read out of a message: known answers, and what holds for any message.

mod answers;
mod properties;
