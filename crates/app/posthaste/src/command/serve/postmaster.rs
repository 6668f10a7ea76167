//! Whether the configured postmaster takes mail.

use std::sync::Arc;

use crate::config::Config;
use crate::open::Opened;

/// Looks the address of the setting `postmaster` up, and warns if it takes no mail here. Mail is
/// taken all the same.
pub(super) fn look_up(config: &Config, opened: &Opened) {
    let Some(address) = config.postmaster() else { return };
    let directory = Arc::clone(&opened.directory);
    tokio::spawn(async move {
        if let Err(error) = directory.target(&address).await {
            tracing::warn!(address, %error, "the setting `postmaster` names nobody who takes mail here: \
                another account gets mail to postmasters (`posthaste route postmaster`)");
        }
    });
}
