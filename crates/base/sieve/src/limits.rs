//! Limits of the cost of a script: bounds for compiling and for one run.

/// Bounds, each with a default that real scripts stay far below.
///
/// The RFCs require these values at least: 15 nested blocks and tests (RFC 5228 §2.10.5), 128
/// variables of 4,000 characters (RFC 5229 §6), 3 nested includes (RFC 6609 §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest script, in bytes. A filter editor's largest exports have some 100 KiB.
    pub script_bytes_max: usize,
    /// The most levels of blocks and tests. Every recursion over a script is bounded by it.
    pub nesting_max: usize,
    /// Most errors that one compilation reports.
    pub errors_max: usize,
    /// Steps of a run: one for each command, test and comparison, and one more for each 64 bytes
    /// that are compared. A million steps take well under a second.
    pub steps_max: u64,
    /// Variables of one script, and global variables of a run.
    pub variables_max: usize,
    /// Longest value of a variable, in bytes. Longer values are cut (RFC 5229 §6).
    pub variable_bytes_max: usize,
    /// Longest string that substitution may make, in bytes.
    pub string_bytes_max: usize,
    /// Most messages that a run may send on by `redirect` (RFC 5228 §10).
    pub redirects_max: usize,
    /// Most actions of a run.
    pub actions_max: usize,
    /// Largest compiled regular expression, in bytes.
    pub regex_bytes_max: usize,
    /// Regular expressions that one script compiles. Together with their size this bounds what a
    /// compiled script takes besides its text: ten bytes of a script can fill one of them.
    pub regexes_max: usize,
    /// The most levels of `include`.
    pub include_depth_max: usize,
    /// The most scripts that a run may include.
    pub includes_max: usize,
    /// Least and greatest time in seconds between two vacation replies to one sender (RFC 5230
    /// §4.1, RFC 6131 §2).
    pub vacation_seconds: (u64, u64),
    /// Longest time in seconds for which `duplicate` remembers an id (RFC 7352 §3.3).
    pub duplicate_seconds_max: u64,
}

const DAY_S: u64 = 86_400;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            script_bytes_max: 1024 * 1024,
            nesting_max: 32,
            errors_max: 20,
            steps_max: 1_000_000,
            variables_max: 256,
            variable_bytes_max: 8 * 1024,
            string_bytes_max: 64 * 1024,
            redirects_max: 8,
            actions_max: 64,
            regex_bytes_max: 256 * 1024,
            regexes_max: 32,
            include_depth_max: 10,
            includes_max: 64,
            vacation_seconds: (0, 90 * DAY_S),
            duplicate_seconds_max: 30 * DAY_S,
        }
    }
}
