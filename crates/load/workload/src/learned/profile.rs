//! The counts of a server, and what follows from them.

/// Commands of one kind in folders of one size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// `imap`, `pop3`, `lmtp`, `smtp`, `submission`.
    pub protocol: String,
    /// The command's name.
    pub command: String,
    /// The most messages that the selected folder had; `None` without a folder.
    pub folder_most: Option<u32>,
    /// The number that ended.
    pub count: u64,
    /// Octets from clients.
    pub received: u64,
    /// Octets to clients.
    pub sent: u64,
    /// Reads of messages' bytes.
    pub body_reads: u64,
}

/// The counts of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The source of the profile, for the file's first line.
    pub source: String,
    /// The time for which it was counted, if that is known.
    pub seconds: Option<f64>,
    /// Accounts that gave commands.
    pub users: u64,
    /// The counts.
    pub commands: Vec<Observed>,
    /// Client programs and their commands.
    pub clients: Vec<(String, u64)>,
}

/// Octets of a message where no delivery was counted: the mean that seed 004's users have.
pub(super) const MESSAGE_BYTES_GUESSED: u64 = 17_000;

/// Messages delivered, and their octets: LMTP and SMTP. (RFC 3030's BDAT as well as DATA.)
pub(super) fn delivered(profile: &Profile) -> (u64, u64) {
    let data = profile.commands.iter().filter(|c| {
        matches!(c.protocol.as_str(), "lmtp" | "smtp") && matches!(c.command.as_str(), "DATA" | "BDAT")
    });
    data.fold((0, 0), |(count, bytes), c| (count + c.count, bytes + c.received))
}

/// The mean octets of a message, as far as deliveries and APPEND say.
pub(super) fn message_bytes(profile: &Profile) -> u64 {
    let appended = profile.commands.iter().filter(|c| c.protocol == "imap" && c.command == "APPEND");
    let (count, bytes) =
        appended.fold(delivered(profile), |(count, bytes), c| (count + c.count, bytes + c.received));
    match (count, bytes) {
        (0, _) | (_, 0) => MESSAGE_BYTES_GUESSED,
        (count, bytes) => (bytes / count).max(500),
    }
}

pub(super) fn arrivals(profile: &Profile) -> f64 {
    match profile.seconds {
        Some(s) if s > 0.0 => delivered(profile).0 as f64 * 3600.0 / s / profile.users.max(1) as f64,
        _ => 0.0,
    }
}

/// Seconds between two of a user's transactions, if this many were done in all.
pub(super) fn think(profile: &Profile, transactions: f64) -> Option<f64> {
    let seconds = profile.seconds.filter(|s| *s > 0.0 && transactions > 0.0)?;
    Some(seconds * profile.users.max(1) as f64 / transactions)
}
