//! Errors of certificate files, each with a remedy.

use std::path::Path;

use crate::NetError;

pub(super) const SET_FILES: &str = "name a certificate and key file in the configuration";
pub(super) const CHECK_CHAIN: &str = "it must hold PEM `BEGIN CERTIFICATE` blocks, the server's own first";
pub(super) const CHECK_KEY: &str =
    "it must hold one unencrypted PEM `BEGIN PRIVATE KEY` block (PKCS#8, PKCS#1 or SEC1)";
pub(super) const CHECK_PAIR: &str = "use the key this certificate was issued for";
pub(super) const CHECK_ACCESS: &str = "check that it exists and that the user the server runs as may use it";

pub(super) fn unusable(path: &Path, what: impl ToString, remedy: &'static str) -> NetError {
    NetError::Certificate { path: path.to_owned(), what: what.to_string(), remedy }
}
