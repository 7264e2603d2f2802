//! A data directory without space.

use super::unreliable::{other_resource, until_logged};
use super::*;

#[tokio::test]
async fn full_disk_delays_commits_and_loses_nothing() {
    let (mut installation, repository) = (Installation::new(), repository());
    let data = installation.data();
    std::fs::create_dir(&data).unwrap();
    let shown = data.display();
    let script = format!("mount -t tmpfs -o size=2g tmpfs '{shown}'; exec \"$0\" \"$@\"");
    let words = unshare(&["--mount", "/bin/sh", "-e", "-c", &script]);
    installation.serve_behind(&words, &Installation::quick_start(&repository)).await;
    let server = installation.pid();
    // The disk exists for the server alone.
    let inside = PathBuf::from(format!("/proc/{server}/root{shown}"));
    std::fs::copy(inside.join("admin.token"), data.join("admin.token")).unwrap();
    installation.until("envs.dns", "Succeeded", 1).await;
    installation.until("envs.app", "Succeeded", 1).await;
    installation.until("envs.db", "Succeeded", 1).await;
    eventually("the end of all attempts", || running(&inside).is_empty()).await;

    // `df` of a path in /proc/PID/root may answer for the disk below the mount.
    let enter = |words: &[&str]| {
        let root = nix::unistd::Uid::effective().is_root();
        let user: &[_] = if root { &[] } else { &["--user", "--preserve-credentials"] };
        let output = std::process::Command::new("nsenter")
            .args(["--target", &server.to_string(), "--mount"])
            .args(user)
            .args(words)
            .arg(&data)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        text(&output)
    };
    let resize = |size: &str| enter(&["mount", "-o", &format!("remount,size={size}")]);
    let used = enter(&["df", "--output=used", "--block-size=1k"]);
    resize(&format!("{}k", used.lines().last().unwrap().trim()));
    // What was removed since then is used too.
    let filled = std::fs::write(inside.join("fill"), vec![0; 64 << 20]);
    assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    let commit = repository.commit("Change", &[("envs/dns/two.tf", &other_resource("two"))]);
    assert!(installation.ask(&["layer", "sync", "envs.dns"]).status.success());
    until_logged(&installation, "No space left on device").await;
    assert_eq!(installation.layer("envs.dns")["phase"], "Succeeded");

    std::fs::remove_file(inside.join("fill")).unwrap();
    resize("2g");
    assert!(installation.ask(&["layer", "sync", "envs.dns"]).status.success());
    installation.until("envs.dns", "Succeeded", 2).await;
    assert_eq!(installation.runs("envs.dns")[0]["commit"], commit.as_str());

    // Too little room: the commit waits, and says why.
    eventually("the end of all attempts", || running(&inside).is_empty()).await;
    resize("512m");
    repository.commit("Change", &[("envs/dns/three.tf", &other_resource("three"))]);
    assert!(installation.ask(&["layer", "sync", "envs.dns"]).status.success());
    eventually("a plan that waits for room", || {
        let layer = installation.layer("envs.dns");
        let reason = layer["reasons"][0]["text"].as_str().unwrap_or_default();
        layer["phase"] == "PendingTrigger" && reason.contains("nothing is started below 1024 MiB")
    })
    .await;
    resize("2g");
    let last = repository.commit("Change", &[("envs/dns/four.tf", &other_resource("four"))]);
    assert!(installation.ask(&["layer", "sync", "envs.dns"]).status.success());
    eventually("a plan of the last commit", || {
        let runs = installation.runs("envs.dns");
        runs[0]["commit"] == last.as_str() && runs[0]["phase"] == "Succeeded"
    })
    .await;
    for layer in ["envs.app", "envs.db"] {
        assert_eq!(installation.runs(layer).len(), 1);
    }
    assert_eq!(installation.pid(), server);
    eventually("the end of all attempts", || running(&inside).is_empty()).await;
}
