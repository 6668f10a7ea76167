//! The command line of this process.

/// The command line as it was given, for the results; secrets left out.
pub fn command_line() -> Vec<String> {
    let mut hide = false;
    std::env::args()
        .map(|arg| {
            let secret = std::mem::take(&mut hide);
            hide = matches!(arg.as_str(), "--password" | "--token");
            match arg.split_once('=') {
                Some((name @ ("--password" | "--token"), _)) => format!("{name}=[secret]"),
                _ if secret => "[secret]".to_owned(),
                _ => arg,
            }
        })
        .collect()
}
