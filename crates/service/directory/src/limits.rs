//! How much a group, an account or an annotation may hold.

/// Members of a group at most: a record has some hundred KiB then.
pub const MEMBERS_MAX: usize = 5_000;
/// Addresses of a group at most, those of groups within it included.
pub const EXPANSION_MAX: usize = 10_000;

/// App passwords of an account at most. They are read with the account, some 200 octets each.
pub const APP_PASSWORDS_MAX: usize = 32;
/// Characters of an app password's label.
pub const LABEL_CHARS_MAX: usize = 64;
/// Certificates that an account lists at most: one for each device. They are read with it.
pub const CERTIFICATES_MAX: usize = 32;

/// Octets of one value of an annotation at most. RFC 5464 §4.1 requires 1,024. A picture for a
/// folder may have some 10,000. A literal of a command has no more.
pub const ANNOTATION_BYTES_MAX: usize = 64 * 1024;
