//! The outcome of an attack.

/// The server's answer, in a few words; or the fault.
pub type Outcome = Result<String, String>;

pub(super) fn text(error: std::io::Error) -> String {
    error.to_string()
}
