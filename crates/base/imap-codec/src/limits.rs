//! Limits of the memory and work that an unauthenticated client may cause. Input over a limit
//! gives an error that names the limit, never a panic.

/// Bytes of one command outside its literals. RFC 7162 §4 requires at least 8,192; a client that
/// lists single UIDs needs about 10 each, so 64 KiB lets it name 6,000. Twice this helps no
/// client that we know.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of one literal where text is meant (names, search strings, passwords): one line's worth.
pub const TEXT_LITERAL_BYTES_MAX: u64 = LINE_BYTES_MAX as u64;

/// Bytes of a non-synchronising literal under LITERAL-: RFC 7888 §5.
pub const LITERAL_MINUS_BYTES_MAX: u64 = 4096;

/// Bytes of a tag. RFC 9051 sets none; real ones have under 20, and the server repeats them in its
/// answers.
pub const TAG_BYTES_MAX: usize = 128;

/// Ranges in one sequence set: what fits a line at two bytes each (`1,`). A literal cannot hold a
/// set.
pub const SET_RANGES_MAX: usize = LINE_BYTES_MAX / 2;

/// Levels of `(`, NOT and OR in a search. The parser takes one stack frame of under 1 KiB for each.
pub const SEARCH_NESTING_MAX: usize = 64;

/// Search keys in one command: each may cost a pass over a mailbox.
pub const SEARCH_KEYS_MAX: usize = 4096;

/// Data items in one FETCH. There are about 25 kinds; the rest are sections.
pub const FETCH_ITEMS_MAX: usize = 1024;

/// Names in one HEADER.FIELDS list.
pub const HEADER_FIELDS_MAX: usize = 1024;

/// Names in all such lists of one FETCH. A name of one octet takes some 60 octets once it is
/// parsed.
pub const HEADER_FIELDS_IN_ALL_MAX: usize = 2 * HEADER_FIELDS_MAX;

/// Numbers in one part path: as deep as the MIME parser goes, and more.
pub const PART_PATH_MAX: usize = 128;

/// Flags in one list: a mailbox has at most 64, a client may repeat itself.
pub const FLAGS_MAX: usize = 256;

/// Items of any other list in a command: patterns, capabilities, status items.
pub const LIST_ITEMS_MAX: usize = 256;

/// Groups of events in one NOTIFY: each is compared with the names of mailboxes that change.
pub const EVENT_GROUPS_MAX: usize = 64;

/// Bytes of the name of an annotation. RFC 5464 sets none; names in use have under 100.
pub const ENTRY_NAME_BYTES_MAX: usize = 256;

/// Bytes of an identifier of an access control list: as many as the longest address may have, and a
/// `-`.
pub const IDENTIFIER_BYTES_MAX: usize = 400;

/// Pairs of an ID command. RFC 2971 §3.3 forbids more than 30.
pub const ID_PAIRS_MAX: usize = 30;

/// Messages in one MULTIAPPEND (RFC 3502): bounds what one commit may hold.
pub const APPEND_MESSAGES_MAX: usize = 4096;

/// Parts of one message that CATENATE puts together (RFC 4469): each may be a read of another
/// message. A part of a multipart takes two of them.
pub const CATENATE_PARTS_MAX: usize = 1024;

/// Levels of parts in a body structure a client reads, and the deepest one the printer is meant
/// for.
pub const BODY_NESTING_MAX: usize = 128;

/// Levels of parentheses in response data a client does not know and skips.
pub const SKIP_NESTING_MAX: usize = 128;
