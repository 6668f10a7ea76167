//! The server over a real socket: transcripts of whole conversations, each with a server of its
//! own.

mod harness;

mod account_limits;
mod bad_input;
mod before_login;
mod condstore;
mod damaged;
mod fairness;
mod fetch_binary;
mod fetch_bounds;
mod fetch_changes;
mod fetch_large;
mod fetch_sections;
mod fetch_structure;
mod idle;
mod keywords;
mod mailboxes;
mod memory;
mod messages;
mod partial;
mod replace;
mod rev2;
mod search_index;
mod search_keys;
mod search_model;
mod search_results;
mod search_text;
mod selecting;
mod several_sessions;
mod sort;
mod thread;
mod uid_batches;
mod uid_only;
mod unauthenticate;
