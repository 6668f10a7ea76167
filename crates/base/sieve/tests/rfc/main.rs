//! Rules of the RFCs, each with examples of our own: a script, a message, and what to do.

mod base;
mod bombs;
mod edits;
mod examples;
mod faults;
mod flags;
mod limits;
mod mailboxes;
mod matching;
mod parts;
mod replies;
mod scripts;
mod times;
mod variables;
mod world;
