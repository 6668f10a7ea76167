//! A login by name and password: IMAP LOGIN, POP3 PASS, SASL PLAIN and LOGIN. A password that was
//! verified recently is not hashed again: see `verified`.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::Secret;
use posthaste_store::CommitOutcome;

use crate::account::Account;
use crate::address::Address;
use crate::attempt::key_of;
use crate::directory::Directory;
use crate::error::{DirectoryError, Result};
use crate::grant::{By, Client, Login, Proven};
use crate::hashing::HashShare;
use crate::login_error::{LoginError, LoginFailure, enabled};
use crate::password::{self, Credentials, KEY_LEN, Policy, Renewal};
use crate::record::{self, Stored};

impl Directory {
    /// Checks a name and a password: the account's own, or one of its app passwords.
    ///
    /// Takes as long for an unknown name as for a wrong password. The error says how long its
    /// answer must be delayed. The caller waits, so that it can stop waiting when the client
    /// goes.
    #[boxed]
    pub async fn login(
        &self,
        name: &str,
        password: &Secret<String>,
        client: Client,
    ) -> Result<Login, LoginError> {
        let proven = self.prove_password(name, password, client).await;
        self.confirm(proven).await
    }

    async fn prove_password(
        &self,
        name: &str,
        password: &Secret<String>,
        client: Client,
    ) -> Result<Proven, LoginError> {
        let name = Address::parse(name).ok();
        // Counted and judged before any look at the password: an answer from memory is an answer,
        // too.
        let attempt = self.begin_attempt(client, key_of(name.as_ref()));
        if attempt.refused {
            return Err(LoginError { failure: LoginFailure::TooMany, delay: attempt.delay });
        }
        let stored = match self.stored_for_login(name.as_ref()).await {
            Ok(stored) => stored,
            Err(e) => {
                self.forgive(attempt);
                return Err(LoginError::at_once(e.into()));
            }
        };
        if let Some(stored) = &stored
            && let Some(outcome) = self.app_passwords.login(stored, password.expose(), client).await
        {
            // It was right, whatever came of it: no guess.
            if outcome.is_ok() {
                self.succeed(attempt)
            } else {
                self.forgive(attempt)
            }
            return outcome;
        }
        let by_password = |account| enabled(account).map(|account| Proven::new(account, By::Password));
        let prepared = password::prepare(password.expose()).ok();
        if let (Some(stored), Some(prepared)) = (&stored, &prepared)
            && let Some(renewal) = self.verified.renewal(&self.verified.mark(stored, prepared))
        {
            self.succeed(attempt);
            return by_password(self.upgraded(stored, prepared, renewal).await);
        }
        match self.verify(stored, prepared, attempt.share).await {
            Ok(Some(account)) => {
                self.succeed(attempt);
                by_password(account)
            }
            Ok(None) => Err(LoginError { failure: LoginFailure::Credentials, delay: attempt.delay }),
            Err(e) => {
                self.forgive(attempt);
                Err(LoginError::at_once(e.into()))
            }
        }
    }

    /// Argon2, against the account's hash or, for nobody, against a decoy that takes as long.
    async fn verify(
        &self,
        stored: Option<Arc<Stored>>,
        prepared: Option<String>,
        share: HashShare,
    ) -> Result<Option<Arc<Account>>> {
        let phc = match &stored {
            Some(stored) => stored.credentials.argon2.clone(),
            None => self.decoy_hash().await?,
        };
        // A password that cannot be prepared is checked too, as one that no account has.
        let (possible, prepared) = (prepared.is_some(), prepared.unwrap_or_default());
        let (right, prepared) =
            self.hashing.run(share, move || (password::verify(&prepared, &phc), prepared)).await?;
        match stored {
            Some(stored) if right && possible => {
                let renewal = self.policy.renewal(&stored.credentials);
                self.verified.remember(self.verified.mark(&stored, &prepared), renewal);
                Ok(Some(self.upgraded(&stored, &prepared, renewal).await))
            }
            _ => Ok(None),
        }
    }

    /// The account of a right password, whose record is written again if the policy replaces its
    /// credentials.
    ///
    /// It stays unchanged while other logins wait, and if it cannot be written: the next login
    /// tries.
    async fn upgraded(&self, stored: &Stored, prepared: &str, renewal: Renewal) -> Arc<Account> {
        if renewal == Renewal::None {
            return Arc::clone(&stored.account);
        }
        match self.upgrade(stored, prepared).await {
            Ok(Some(upgraded)) => {
                tracing::info!(
                    account = upgraded.account.name,
                    "the password was hashed again, at the configured cost"
                );
                self.verified.remember(self.verified.mark(&upgraded, prepared), Renewal::None);
                upgraded.account
            }
            Ok(None) => Arc::clone(&stored.account),
            Err(error) => {
                tracing::warn!(account = stored.account.name, %error, "the password was not hashed again: its earlier hash stays");
                Arc::clone(&stored.account)
            }
        }
    }

    /// `None` if there was no room, or somebody else changed the record.
    async fn upgrade(&self, stored: &Stored, prepared: &str) -> Result<Option<Stored>> {
        let (policy, text) = (self.policy, prepared.to_owned());
        let made = self.hashing.run_if_free(move || Credentials::make(&text, policy)).await?;
        let Some(credentials) = made.transpose()? else { return Ok(None) };
        let mut next = Stored { credentials, ..stored.clone() };
        let (key, expected) = (record::account_key(&next.account.name), stored.account.version);
        if self.records.put(key, expected, Some(next.write()?)).await? == CommitOutcome::Conflict {
            return Ok(None);
        }
        Arc::make_mut(&mut next.account).version += 1;
        Ok(Some(next))
    }

    /// A hash of a password nobody knows, made once when first needed.
    async fn decoy_hash(&self) -> Result<String> {
        let make = || async {
            let policy = Policy { scram_iterations: None, ..self.policy };
            let nobody = password::random::<KEY_LEN>()?;
            let text: String = nobody.iter().map(|b| char::from(b'a' + b % 26)).collect();
            let made = self.hashing.run(HashShare::Own, move || Credentials::make(&text, policy)).await??;
            Ok::<_, DirectoryError>(made.argon2)
        };
        self.decoy_hash.get_or_try_init(make).await.cloned()
    }
}
