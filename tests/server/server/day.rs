//! A day with the server, as `docs/server-day.md` tells it.

use super::*;
use butler_testing::documented::{assert_output_documented, documented_block};
use butler_testing::files_provider::FilesProvider;

/// The page whose outputs are those of this test.
const PAGE: &str = "docs/server-day.md";

/// The installation of the page.
struct Day {
    installation: Installation,
    repository: Repository,
    /// The directory of the files that the modules manage.
    managed: PathBuf,
    provider: FilesProvider,
}

impl Day {
    async fn begin() -> Self {
        let (installation, provider) = (Installation::new(), FilesProvider::unpack());
        let managed = installation.path("managed");
        std::fs::create_dir(&managed).unwrap();
        let repository = Repository::create(&[]);
        let mut day = Self { installation, repository, managed, provider };
        day.write("gate", "open");
        day.commit(&[
            ("modules/page/main.tf", &Day::page("")),
            ("envs/network/main.tf", &day.file("network", "10.0.0.0/16")),
            ("envs/app/main.tf", &day.pages(&[("app-1", "one"), ("app-2", "two")])),
            ("envs/web/main.tf", &day.pages(&[("web", "one")])),
            ("envs/jobs/main.tf", &day.chain("first")),
        ]);
        day.configure(|page| page);
        let sources =
            format!("{{filesystemMirror: {{path: '{}'}}}}", day.provider.mirror().display());
        let settings = format!("terraformrc: {{providerInstallation: {sources}}}\n");
        std::fs::write(day.installation.path("settings.yaml"), settings).unwrap();
        day.serve().await;
        day
    }

    async fn serve(&mut self) {
        let settings = self.installation.path("settings.yaml");
        let (mirror, managed) = (self.provider.mirror(), self.managed.clone());
        let paths = [
            ("--settings", &settings),
            ("--isolation-read", &mirror),
            ("--isolation-write", &managed),
        ];
        let arguments = paths.map(|(flag, path)| [flag.to_owned(), path.display().to_string()]);
        self.installation.serve(arguments.as_flattened()).await;
    }

    /// Writes the configuration of the page, with the address of the repository and with a change.
    fn configure(&self, change: impl FnOnce(String) -> String) {
        let page = change(documented_block(PAGE, "configuration"));
        let url = self.repository.url();
        self.installation.configure(&format!("repositories: {{infra: {{url: '{url}'}}}}\n{page}"));
    }

    /// Changes the configuration, and waits until it is in force.
    async fn reconfigure(&self, change: impl FnOnce(String) -> String) {
        let changes = || {
            let log = std::fs::read_to_string(self.installation.path("server.log")).unwrap();
            log.matches("the configuration has changed, and is in force").count()
        };
        let before = changes();
        self.configure(change);
        eventually("the new configuration", || changes() > before).await;
    }

    fn path(&self, name: &str) -> String {
        self.managed.join(name).display().to_string()
    }

    /// The module `modules/page`, with `suffix` behind the content of each page.
    fn page(suffix: &str) -> String {
        let head = FilesProvider::module(&[]);
        format!(
            "{head}variable \"path\" {{ type = string }}
variable \"content\" {{ type = string }}
resource \"files_file\" \"page\" {{
  path    = var.path
  content = \"${{var.content}}{suffix}\"
}}
"
        )
    }

    /// A module with pages, one after the other.
    fn pages(&self, pages: &[(&str, &str)]) -> String {
        let module = |(number, (name, content)): (usize, &(&str, &str))| {
            let before =
                number.checked_sub(1).map(|it| format!("  depends_on = [module.page{it}]\n"));
            format!(
                "module \"page{number}\" {{
  source  = \"../../modules/page\"
  path    = \"{}\"
  content = \"{content}\"
{}}}
",
                self.path(name),
                before.unwrap_or_default()
            )
        };
        pages.iter().enumerate().map(module).collect()
    }

    fn file(&self, name: &str, content: &str) -> String {
        FilesProvider::module(&[(&self.managed.join(name), content)])
    }

    /// A module with five files, one after the other. The second one waits for the file `gate`.
    fn chain(&self, content: &str) -> String {
        let file = |number: u32| (self.managed.join(format!("job-{number}")), content.to_owned());
        FilesProvider::chain(&[0, 1, 2, 3, 4].map(file), 1, &self.managed.join("gate"))
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.managed.join(name), content).unwrap();
    }

    fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.managed.join(name)).unwrap_or_default()
    }

    fn commit(&self, files: &[(&str, &str)]) -> String {
        self.repository.commit("Change", files)
    }

    /// Commits a change of one layer, and waits for its plan.
    async fn commit_to(&self, layer: &str, module: &str) {
        let commit = self.commit(&[(&format!("envs/{layer}/main.tf"), module)]);
        self.sync().await;
        eventually(&format!("a plan of {layer}"), || {
            let runs = self.installation.runs(layer);
            let plan = runs.iter().find(|run| run["action"] == "plan").unwrap();
            plan["commit"] == *commit && plan["phase"] == "Succeeded"
        })
        .await;
    }

    /// Lets the server read the repository, and waits until it has read the newest commit.
    async fn sync(&self) {
        assert!(self.installation.ask(&["layer", "sync", "network"]).status.success());
        let head = self.repository.head();
        eventually("the newest commit", || {
            let layers = self.installation.json(&["layer", "list"])["items"].clone();
            layers.as_array().unwrap().iter().all(|layer| layer["revision"]["commit"] == *head)
        })
        .await;
    }

    /// Waits until the layers are in these phases after their newest runs, and none of them has a lease.
    async fn until(&self, phases: &[(&str, &str)]) {
        eventually(&format!("{phases:?}"), || {
            phases.iter().all(|(name, phase)| {
                let layer = self.installation.layer(name);
                // A layer is shown as it was decided about last, so it may not show a run that exists.
                let runs = self.installation.runs(name);
                let newest = runs.first().map_or(&Value::Null, |run| &run["id"]);
                let shows_newest_run = layer["lastRun"]["id"] == *newest;
                layer["phase"] == *phase && layer["lease"].is_null() && shows_newest_run
            })
        })
        .await;
    }

    /// The digest of the newest plan of a layer.
    fn digest(&self, layer: &str) -> String {
        let runs = self.installation.runs(layer);
        let plan = runs.iter().find(|run| run["planDigest"].is_string()).unwrap();
        plan["planDigest"].as_str().unwrap().to_owned()
    }

    /// The id of the newest run of a layer.
    fn newest(&self, layer: &str) -> String {
        self.installation.runs(layer)[0]["id"].as_str().unwrap().to_owned()
    }

    /// The kinds of the runs of a layer, the newest first.
    fn actions(&self, layer: &str) -> Vec<String> {
        let runs = self.installation.runs(layer);
        runs.iter().map(|run| run["action"].as_str().unwrap().to_owned()).collect()
    }

    /// Executes these commands, and compares what they print with the page.
    fn show(&self, marker: &str, commands: &[&[&str]]) -> String {
        let executed = commands.iter().map(|command| {
            let printed = text(&self.installation.ask(command));
            format!("$ butler-runner {}\n{printed}", command.join(" "))
        });
        let output = executed.collect::<String>();
        let output = output.replace(&self.managed.display().to_string(), "/srv/files");
        assert_output_documented(PAGE, marker, &output);
        output
    }
}

#[tokio::test]
async fn day_is_as_its_page_tells_it() {
    let mut day = Day::begin().await;
    plans_and_approvals(&day).await;
    digests_and_not_commits(&day).await;
    window(&day).await;
    failures(&day).await;
    killed_server(&mut day).await;
    drift(&day).await;
    day.installation.until_tidy().await;
}

async fn plans_and_approvals(day: &Day) {
    let all = [("network", "Noop"), ("jobs", "Noop"), ("app", "PendingTrigger")];
    day.until(&all).await;
    day.until(&[("web", "PendingTrigger")]).await;
    day.show("first plans", &[&["layer", "list"]]);
    assert_eq!((&*day.content("network"), &*day.content("web")), ("10.0.0.0/16", ""));

    let (plan, digest) = (day.newest("app"), day.digest("app"));
    let approve = ["layer", "approve", "app", "--plan-digest", &digest];
    let run = ["run", "show", &plan];
    day.show("approval", &[&run, &["run", "show", &plan, "--plan"], &approve]);
    assert!(day.installation.ask(&["layer", "apply", "web"]).status.success());
    day.until(&[("app", "Noop"), ("web", "Noop")]).await;
    day.show("approved", &[&["run", "list", "app"]]);

    day.commit_to("web", &day.pages(&[("web", "two")])).await;
    day.until(&[("web", "PendingTrigger")]).await;
    day.show("one layer", &[&["layer", "list"]]);
    let late = day.digest("web");

    day.commit_to("web", &day.pages(&[("web", "three")])).await;
    day.until(&[("web", "PendingTrigger")]).await;
    day.show("late approval", &[&["layer", "approve", "web", "--plan-digest", &late]]);
    assert_eq!(day.content("web"), "one");
    assert!(day.installation.ask(&["layer", "apply", "web", "--wait"]).status.success());
    day.until(&[("web", "Noop")]).await;
    day.show("newest plan", &[&["run", "list", "web"]]);
    assert_eq!(day.content("web"), "three");
}

async fn digests_and_not_commits(day: &Day) {
    let before = [day.actions("network").len(), day.actions("jobs").len()];
    day.commit(&[("modules/page/main.tf", &Day::page(" (draft)"))]);
    day.sync().await;
    day.until(&[("app", "PendingTrigger"), ("web", "PendingTrigger")]).await;
    day.show("shared module", &[&["layer", "list"]]);

    day.repository.git(&["revert", "--no-edit", "HEAD"]);
    day.sync().await;
    day.until(&[("app", "Noop"), ("web", "Noop")]).await;
    let refused = day.digest("app");
    let approve = ["layer", "approve", "app", "--plan-digest", &refused];
    day.show("revert", &[&["layer", "list"], &approve]);
    assert_eq!((&*day.content("app-1"), &*day.content("web")), ("one", "three"));
    assert_eq!(before, [day.actions("network").len(), day.actions("jobs").len()]);

    let runs = || ["app", "web", "jobs"].map(|layer| day.actions(layer).len());
    let [app, web, jobs] = runs();
    day.repository.git(&["reset", "--quiet", "--hard", "HEAD~2"]);
    day.commit_to("network", &day.file("network", "10.1.0.0/16")).await;
    eventually("a plan of the dependent layer", || day.actions("app").len() == app + 1).await;
    day.until(&[("network", "Noop"), ("app", "Noop")]).await;
    assert_eq!(day.installation.runs("app")[0]["cause"], "dependency");
    day.show("force push", &[&["layer", "list"]]);
    assert_eq!(day.content("network"), "10.1.0.0/16");
    assert_eq!(runs(), [app + 1, web, jobs]);
}

async fn window(day: &Day) {
    day.reconfigure(|page| page + &documented_block(PAGE, "window configuration")).await;
    day.commit_to("web", &day.pages(&[("web", "four")])).await;
    assert!(day.installation.ask(&["layer", "apply", "web"]).status.success());
    let gate = || day.installation.layer("web")["reasons"][0]["gate"].clone();
    eventually("a window", || gate() == "window").await;
    day.show("window", &[&["layer", "show", "web"]]);
    assert_eq!(day.content("web"), "three");
    day.reconfigure(|page| page).await;
    day.until(&[("web", "Noop")]).await;
    day.show("open window", &[&["run", "list", "web"]]);
    assert_eq!(day.content("web"), "four");
}

/// An apply that fails and one that is cancelled, and the plans that follow.
async fn failures(day: &Day) {
    let pages = [("app-1", "changed"), ("app-2", "two"), ("missing/app-3", "three")];
    let pages = day.pages(&pages);
    day.commit_to("app", &pages).await;
    day.until(&[("app", "PendingTrigger")]).await;
    let failed = day.installation.ask(&["layer", "apply", "app", "--wait"]);
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed));
    let apply = day.newest("app");
    day.until(&[("app", "Failed")]).await;
    day.show("failed apply", &[&["run", "show", &apply], &["layer", "list"]]);

    std::fs::remove_file(day.managed.join("gate")).unwrap();
    day.commit_to("jobs", &day.chain("second")).await;
    eventually("the first file", || day.content("job-0") == "second").await;
    let apply = day.newest("jobs");
    let cancelled = day.installation.ask(&["run", "cancel", &apply]);
    assert!(cancelled.status.success(), "{}", text(&cancelled));
    let log = || text(&day.installation.ask(&["run", "logs", &apply]));
    eventually("Terraform's interruption", || log().contains("Interrupt received")).await;
    day.write("gate", "open");
    day.until(&[("jobs", "Failed")]).await;
    // Not all layers: that with the failed apply is planned again at a moment of its own.
    let shown = day.show("cancelled apply", &[&["layer", "show", "jobs"]]);
    assert!(shown.contains("cancelled after 2 of 5 changes"), "{shown}");
    let contents = (0..5).map(|number| day.content(&format!("job-{number}")));
    assert_eq!(contents.collect::<Vec<_>>(), ["second", "second", "first", "first", "first"]);
    assert!(day.installation.ask(&["layer", "plan", "jobs", "--wait"]).status.success());
    day.until(&[("jobs", "Noop")]).await;
    day.show("after the cancelled apply", &[&["run", "list", "jobs"]]);

    std::fs::create_dir(day.managed.join("missing")).unwrap();
    // The server waits before it plans again.
    day.until(&[("app", "PendingTrigger")]).await;
    assert!(day.installation.ask(&["layer", "apply", "app", "--wait"]).status.success());
    day.until(&[("app", "Noop")]).await;
    day.show("after the failed apply", &[&["run", "list", "app"]]);
    assert_eq!((&*day.content("app-1"), &*day.content("missing/app-3")), ("changed", "three"));
}

async fn killed_server(day: &mut Day) {
    std::fs::remove_file(day.managed.join("gate")).unwrap();
    day.commit_to("jobs", &day.chain("third")).await;
    eventually("the first file", || day.content("job-0") == "third").await;
    day.installation.kill().await;
    day.write("gate", "open");
    eventually("the last file", || day.content("job-4") == "third").await;
    day.serve().await;
    day.until(&[("jobs", "Noop")]).await;
    day.show("killed server", &[&["run", "show", &day.newest("jobs")]]);
}

async fn drift(day: &Day) {
    day.write("network", "172.16.0.0/12");
    // The layer was applied long ago, so its first check is due at once.
    let network = "path: envs/network,";
    day.reconfigure(|page| page.replace(network, &format!("{network} drift: {{every: 10m}},")))
        .await;
    let layer = || day.installation.layer("network");
    eventually("drift", || layer()["drift"] == "found").await;
    // No further check comes between.
    day.reconfigure(|page| page).await;
    day.show("drift", &[&["layer", "list"]]);
    assert!(day.installation.ask(&["layer", "plan", "network", "--wait"]).status.success());
    day.until(&[("network", "Noop")]).await;
    day.show("repair", &[&["run", "list", "network"]]);
    assert_eq!(day.content("network"), "10.1.0.0/16");
}
