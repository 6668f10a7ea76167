//! The contract of engines as tests: every engine's crate runs them all, and so does the oracle.
//!
//! ```text
//! #[tokio::test(flavor = "multi_thread")]
//! async fn the_contract_holds() {
//!     posthaste_store::suite::run_all(&MyFactory::new()).await;
//! }
//! ```
//! Each test makes an account of its own, so all may share one store, which may hold anything else.
//! A test panics where the engine breaks the contract; it ends with `maintain` and `check`.
// A failed test panics with the fault.
#![allow(clippy::unwrap_used)]

mod closed;
mod concurrent;
mod contents;
mod folder;
mod full;
mod keywords;
pub mod layer;
mod lists;
mod mailboxes;
mod moves;
mod random;
mod task;
mod transfer;
mod values;
mod world;

use async_recursion::async_recursion as boxed;

pub use closed::{
    closed_and_open_agree, mail_into_a_closed_mailbox_reads_no_rows, opening_races_deliveries,
    recent_survives_while_closed,
};
pub use concurrent::{appenders_never_share_a_uid, stores_share_an_engine};
pub use contents::{
    a_body_takes_another_form, a_form_that_loses_something_meets_no_other_message, a_summary_is_added_later,
    bodies_are_read_by_range, copies_share_their_body, one_body_for_many_recipients, references_are_counted,
    summaries_come_in_uid_order,
};
pub use folder::{Folder, ListedMessage};
pub use full::a_folder_takes_as_many_as_it_may;
pub use keywords::keywords_stay_with_their_messages;
pub use lists::{
    a_mailbox_is_in_one_list, directory_entries_have_versions, lists_are_conditional,
    pages_of_the_directory_are_bounded_in_octets, removed_mailboxes_cannot_be_read,
};
pub use mailboxes::{
    a_conflict_leaves_no_trace, a_new_mailbox_is_empty, changes_add_up, heads_come_in_the_order_asked,
    large_mailboxes, what_was_done_survives,
};
pub use moves::{
    a_move_within_a_mailbox_is_one_commit, a_pair_is_applied_whole, moves_that_cross_lose_nothing,
};
pub use random::as_the_oracle_does;
pub(crate) use task::erased;
pub use transfer::mail_moves;
pub(crate) use values::{Seeded, modseq};
pub use values::{new_body_id, new_id, sample_head};
pub use world::{Factory, World, add_mailbox, check, maintain};

/// Every test of the contract.
#[boxed(?Send)]
pub async fn run_all(factory: &dyn Factory) {
    a_new_mailbox_is_empty(factory).await;
    changes_add_up(factory).await;
    a_conflict_leaves_no_trace(factory).await;
    heads_come_in_the_order_asked(factory).await;
    what_was_done_survives(factory).await;
    summaries_come_in_uid_order(factory).await;
    bodies_are_read_by_range(factory).await;
    a_body_takes_another_form(factory).await;
    a_form_that_loses_something_meets_no_other_message(factory).await;
    a_summary_is_added_later(factory).await;
    references_are_counted(factory).await;
    one_body_for_many_recipients(factory).await;
    copies_share_their_body(factory).await;
    lists_are_conditional(factory).await;
    a_mailbox_is_in_one_list(factory).await;
    removed_mailboxes_cannot_be_read(factory).await;
    directory_entries_have_versions(factory).await;
    pages_of_the_directory_are_bounded_in_octets(factory).await;
    appenders_never_share_a_uid(factory).await;
    stores_share_an_engine(factory).await;
    mail_into_a_closed_mailbox_reads_no_rows(factory).await;
    recent_survives_while_closed(factory).await;
    opening_races_deliveries(factory).await;
    closed_and_open_agree(factory).await;
    keywords_stay_with_their_messages(factory).await;
    a_pair_is_applied_whole(factory).await;
    a_move_within_a_mailbox_is_one_commit(factory).await;
    moves_that_cross_lose_nothing(factory).await;
    a_folder_takes_as_many_as_it_may(factory).await;
    as_the_oracle_does(factory).await;
    large_mailboxes(factory).await;
}
