//! How the S3-compatible store is reached.
//!
//! Settings that the configuration lacks are taken from the standard variables (`AWS_ENDPOINT_URL`,
//! `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
//! `AWS_ALLOW_HTTP` and their like). After those, the machine's role is used (web identity,
//! container and instance roles), as in other S3 clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{BackoffConfig, Certificate, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use posthaste_store::{Result, StoreError};

/// The timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts after the first. With the pauses below about two seconds besides the timeouts
/// themselves, like the database's.
const RETRIES_MAX: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Access to an S3-compatible store. Values that are `None` or `false` are taken from the
/// environment.
#[derive(Clone, PartialEq, Eq)]
pub struct S3 {
    /// Address of the service, such as `https://objects.example.org`; AWS's own by default.
    pub endpoint: Option<String>,
    /// The region that requests are signed for; `us-east-1` by default.
    pub region: Option<String>,
    /// Id and secret of an access key.
    pub access_key: Option<(String, String)>,
    /// Whether connections to the endpoint may be unencrypted.
    pub allow_http: bool,
    /// Whether the bucket is a part of the host's name and not of the path.
    pub virtual_host: bool,
    /// PEM file of an authority that signed the endpoint's certificate, besides those the system
    /// trusts.
    pub ca: Option<PathBuf>,
    /// The time that one request may take, transfer of the body included.
    pub timeout: Duration,
}

impl Default for S3 {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            access_key: None,
            allow_http: false,
            virtual_host: false,
            ca: None,
            timeout: Duration::from_secs(30),
        }
    }
}

impl std::fmt::Debug for S3 {
    /// Does not print the key's secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3 at {}", self.endpoint.as_deref().unwrap_or("the environment's endpoint"))
    }
}

impl S3 {
    /// The client for one bucket. Nothing is sent yet. Must be called within a runtime.
    pub(crate) fn open(&self, bucket: &str) -> Result<Arc<dyn ObjectStore>> {
        let client = |key, value: String| (AmazonS3ConfigKey::Client(key), value);
        let seconds = |time: Duration| format!("{} ms", time.as_millis());
        let mut builder = AmazonS3Builder::from_env();
        if let Some(ca) = &self.ca {
            // The environment's options for the connection are replaced here. One of them allows
            // connections without encryption, which contradicts `ca`.
            let options = ClientOptions::new().with_root_certificate(certificate(ca)?);
            builder = builder.with_client_options(options);
        }
        let settings = [
            Some(client(ClientConfigKey::Timeout, seconds(self.timeout))),
            Some(client(ClientConfigKey::ConnectTimeout, seconds(CONNECT_TIMEOUT))),
            self.allow_http.then(|| client(ClientConfigKey::AllowHttp, "true".into())),
            self.virtual_host.then(|| (AmazonS3ConfigKey::VirtualHostedStyleRequest, "true".into())),
            self.endpoint.clone().map(|endpoint| (AmazonS3ConfigKey::Endpoint, endpoint)),
            self.region.clone().map(|region| (AmazonS3ConfigKey::Region, region)),
        ];
        for (key, value) in settings.into_iter().flatten() {
            builder = builder.with_config(key, value);
        }
        if let Some((id, secret)) = &self.access_key {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        }
        let retry = RetryConfig {
            backoff: BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 },
            max_retries: RETRIES_MAX,
            retry_timeout: self.timeout,
        };
        // Objects are deleted one by one: not every store has the call for many at once.
        let builder = builder.with_bucket_name(bucket).with_retry(retry).with_disable_bulk_delete(true);
        let store = builder.build();
        Ok(Arc::new(store.map_err(|e| StoreError::Unavailable(format!("s3://{bucket}: {e}")))?))
    }
}

fn certificate(file: &Path) -> Result<Certificate> {
    let unusable = |why: &dyn std::fmt::Display| {
        StoreError::Unavailable(format!(
            "`s3.ca`: {} cannot be used to check the object store's certificate: {why}",
            file.display()
        ))
    };
    let pem = std::fs::read(file).map_err(|e| unusable(&e))?;
    Certificate::from_pem(&pem).map_err(|e| unusable(&e))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settings_are_refused_by_name_and_secrets_are_not_shown() {
        let s3 = S3 { access_key: Some(("id".into(), "secret".into())), ..S3::default() };
        assert!(!format!("{s3:?}").contains("secret"));
        let missing = S3 { ca: Some("/nowhere/ca.pem".into()), ..s3 };
        let why = missing.open("mail").unwrap_err().to_string();
        assert!(why.contains("s3.ca") && why.contains("/nowhere/ca.pem"), "{why}");
    }
}
