//! The scripts that a delivery reads.

use super::*;
use crate::{SiteFolders, SiteScripts, compile};

impl World {
    async fn put_script(&self, name: &str, text: &str) {
        let account = self.directory.account(ANA).await.unwrap().unwrap();
        self.directory.scripts().put(&account, name, text).await.unwrap();
    }

    /// What a delivery reads of scripts.
    async fn reads(&self) -> Vec<String> {
        self.engine.reads_of("");
        self.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap();
        self.engine.reads_of("sieve/")
    }

    /// With one script of the administrator, which accounts may include as "shared".
    fn with_shared(self, text: &str) -> Self {
        let mut site = SiteScripts::read(&SiteFolders::default()).unwrap();
        site.scripts.insert("shared".to_owned(), Arc::new(compile(text).unwrap()));
        Self { filter: self.filter.with_site(site), ..self }
    }
}

/// The next delivery after any change read all scripts of the account at once.
#[tokio::test]
async fn only_scripts_that_may_run_are_read() {
    let world = World::new().await;
    world.put_script("a", "require \"include\"; include \"b\";").await;
    world.put_script("b", "keep;").await;
    world.put_script("c", "keep;").await;
    world.use_script("keep;").await;
    let reads = world.reads().await;
    assert!(reads.len() == 1 && reads[0].contains("/script/"), "{reads:?}");
    assert_eq!(world.reads().await, Vec::<String>::new());
    world.use_script("require \"include\"; include \"a\"; include :optional \"none\";").await;
    let reads = world.reads().await;
    // The active one, the names of all, a and b.
    let lists = reads.iter().filter(|name| name.ends_with(['?', '*'])).count();
    assert_eq!((reads.len(), lists), (4, 1), "{reads:?}");
    assert_eq!(world.reads().await, Vec::<String>::new());
    assert_eq!(world.inbox().await, 4);
}

/// Scripts of the administrator may include those of the account.
#[tokio::test]
async fn scripts_are_included_by_way_of_the_administrators() {
    let world = World::new().await.with_shared("keep;");
    world.put_script("own", "discard;").await;
    world.use_script("require \"include\"; include :global \"shared\";").await;
    world.reads().await;
    assert_eq!(world.inbox().await, 1);
    // They may change while the scripts of the account stay.
    let world = world.with_shared("require \"include\"; include :personal \"own\";");
    assert_eq!(world.reads().await.len(), 3);
    assert_eq!(world.inbox().await, 1);
}

/// A run that fails keeps its message: `discard` shows which runs come to their end.
#[tokio::test]
async fn scripts_in_a_circle_and_missing_ones_end_the_run() {
    let world = World::new().await;
    world.put_script("a", "require \"include\"; include \"b\";").await;
    world.put_script("b", "require \"include\"; include :once \"c\"; include \"a\";").await;
    world.put_script("c", "keep;").await;
    let mut count = 0;
    for (includes, is_kept) in [
        // Each names itself by way of the others.
        ("include \"a\";", true),
        ("include \"main\";", true),
        ("include \"c\"; include :once \"c\";", true),
        // Names differ by their case, and by their place.
        ("include \"C\";", true),
        ("include :optional \"C\";", false),
        ("include :global \"c\";", true),
        ("include :global :optional \"c\";", false),
    ] {
        world.use_script(&format!("require \"include\"; {includes} discard;")).await;
        world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap();
        count += u32::from(is_kept);
        assert_eq!(world.inbox().await, count, "{includes}");
    }
    // It is removed after it was compiled.
    world.use_script("require \"include\"; include :optional \"c\"; discard;").await;
    world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap();
    assert_eq!(world.inbox().await, count + 1);
    let account = world.directory.account(ANA).await.unwrap().unwrap();
    world.directory.scripts().remove(&account, "c").await.unwrap();
    world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap();
    assert_eq!(world.inbox().await, count + 1);
}
