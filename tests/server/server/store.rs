//! Backups of the store.

use butler_base::platform::fs::PermissionsExt;

use super::*;

impl Installation {
    async fn store(&self, command: &str, file: &Path) -> Output {
        self.command(&["store", command]).arg(file).output().await.unwrap()
    }
}

#[tokio::test]
async fn backup_of_a_running_server_replaces_a_damaged_store() {
    let mut installation = Installation::new();
    let repository = Repository::create(&[("envs/dns/main.tf", LAYER)]);
    let arguments = Installation::quick_start(&repository);
    installation.serve(&arguments).await;
    installation.until("envs.dns", "Succeeded", 1).await;
    let copy = installation.path("backup.sqlite");
    let made = installation.store("backup", &copy).await;
    assert!(made.status.success(), "{}", text(&made));
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = installation.store("backup", &copy).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again).contains("the file exists"), "{}", text(&again));
    let refused = installation.store("restore", &copy).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("is used by process"), "{}", text(&refused));
    assert_eq!(installation.terminate().await, Some(0));

    let store = installation.data().join("store.sqlite");
    let mut damaged = std::fs::read(&store).unwrap();
    let middle = damaged.len() / 2 / 4096 * 4096;
    damaged[middle..middle + 4096].fill(0x5a);
    std::fs::write(&store, &damaged).unwrap();
    let mut start = installation.command(&["serve", "--listen", "127.0.0.1:0"]);
    let start = start.args(&arguments).output().await.unwrap();
    assert_eq!(start.status.code(), Some(1), "{}", text(&start));
    assert!(text(&start).contains("`butler-runner store restore FILE`"), "{}", text(&start));
    assert_eq!(std::fs::read(&store).unwrap(), damaged);

    let restored = installation.store("restore", &copy).await;
    assert!(restored.status.success(), "{}", text(&restored));
    let kept = text(&restored).lines().find_map(|line| {
        line.strip_prefix("replaced store: ").map(|path| std::fs::read(path).unwrap())
    });
    assert_eq!(kept, Some(damaged));
    installation.serve(&arguments).await;
    assert_eq!(installation.runs("envs.dns").len(), 1);
    installation.until("envs.dns", "Succeeded", 1).await;
}
