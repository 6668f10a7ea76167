//! Permits to do work: how much of one kind is done at a time, in all and for each account or
//! host.
//!
//! [`on_compute_thread`] does long work beside sessions. [`compute_threads`] is the number of
//! threads that compute for one kind of work. A [`KeyedSemaphore`] shares such a number among those
//! who want the work done. [`erased()`] hides the type of work from the runtime that does it.
//!
//! Not in here: permits to hold memory (`ByteBudget` of the crate `net`).

mod compute;
mod erased;
mod fair_queue;
mod keyed_semaphore;

pub use compute::{
    compute_threads, given_to_compute_threads, is_compute_thread, on_compute_thread, on_compute_thread_with,
};
pub use erased::{ErasedResult, ErasedWork, erased, result_of};
pub use keyed_semaphore::{KeyedPermit, KeyedSemaphore, OwnPermit};
