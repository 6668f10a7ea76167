//! How much a group may hold.

/// Members of a group at most: a record has some hundred KiB then.
pub const MEMBERS_MAX: usize = 5_000;
/// Addresses that a group stands for at most, those of groups within it included.
pub const EXPANSION_MAX: usize = 10_000;
