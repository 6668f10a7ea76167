//! Memory: how much the server may use, how that is divided, and how the allocator gives it back.

mod allocator;
mod machine;
mod plan;

pub use allocator::give_large_blocks_back;
pub use plan::{Plan, set_message_size, size};
