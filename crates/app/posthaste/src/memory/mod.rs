//! Memory: the limit of the server, its division into budgets, and its return by the allocator.

mod allocator;
mod machine;
mod plan;

pub use allocator::give_large_blocks_back;
pub use plan::{Plan, set_message_size, size};
