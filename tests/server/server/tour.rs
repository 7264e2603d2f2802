//! The tour of the pages (`docs/tour.md`): a browser goes through it, and takes its pictures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::visit::Visit;
use super::*;
use butler_testing::files_provider::FilesProvider;

/// The size of the pictures.
const SIZE: (u32, u32) = (1200, 820);

/// Goes through the pages, and takes pictures if the documentation is written.
struct Tour {
    visit: Visit,
    pictures: Vec<String>,
}

impl Tour {
    /// Takes the picture `name` of the window, after it was scrolled to an element.
    async fn picture(&mut self, name: &str, top: &str) {
        self.pictures.push(name.to_owned());
        let scroll = format!("document.querySelector(\"{top}\").scrollIntoView()");
        self.visit.browser.run(&scroll).await;
        let format = serde_json::json!({"format": "png"});
        let answer = self.visit.browser.command("Page.captureScreenshot", format).await;
        let picture = STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        if std::env::var_os("BUTLER_TEST_WRITE_DOCS").is_some() {
            std::fs::write(directory().join(format!("{name}.png")), picture).unwrap();
        }
    }

    async fn until_state(&self, state: &str) {
        let holds = format!("document.querySelector('h1 .state').textContent === '{state}'");
        self.visit.until(state, &holds).await;
    }
}

/// Where the pictures are.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tour")
}

/// The pictures of the page, in order.
fn pictures_of_the_page() -> Vec<String> {
    let page = std::fs::read_to_string(directory().with_extension("md")).unwrap();
    let pictures = page.split("](tour/").skip(1);
    pictures.map(|rest| rest.split_once(".png)").unwrap().0.to_owned()).collect()
}

/// A module with these files, each with a resource of its own.
fn module(files: &[(&str, &str, &Path)]) -> String {
    let resources = files.iter().map(|(name, content, directory)| {
        let path = directory.join(name);
        let path = path.display();
        format!("resource \"files_file\" \"{name}\" {{\n  path    = \"{path}\"\n  content = \"{content}\"\n}}\n")
    });
    [FilesProvider::module(&[])].into_iter().chain(resources).collect()
}

/// An installation with three layers, which has planned all, and applied the first.
async fn installation(provider: &FilesProvider) -> (Installation, Repository) {
    let mut installation = Installation::new();
    let site = installation.path("site");
    std::fs::create_dir(&site).unwrap();
    let page = |number: u32| (site.join(format!("page-{number}")), number.to_string());
    let repository = Repository::create(&[
        ("envs/network/main.tf", &module(&[("zone", "example.com", &site)])),
        (
            "envs/orders/main.tf",
            &module(&[
                ("queue", "retention = 96h", &site),
                ("alerts", "latency < 200ms", &site),
                ("dashboard", "orders", &site),
            ]),
        ),
        (
            "envs/shop/main.tf",
            &FilesProvider::chain(&[1, 2, 3, 4, 5].map(page), 2, &site.join("gate")),
        ),
    ]);
    let mirror = provider.mirror().display().to_string();
    installation.configure(&format!(
        "repositories: {{platform: {{url: '{}', poll: 1s}}}}
defaults:
  repository: platform
  backend: {{type: local}}
  isolation: {{read: ['{mirror}'], write: ['{}']}}
layers:
  network: {{path: envs/network, strategy: auto}}
  # The first check of this name is due five seconds after an apply.
  orders: {{path: envs/orders, drift: {{every: 1m}}}}
  shop: {{path: envs/shop}}
",
        repository.url(),
        site.display(),
    ));
    let sources = format!("{{filesystemMirror: {{path: '{mirror}'}}}}");
    let settings = format!("terraformrc: {{providerInstallation: {sources}}}\n");
    std::fs::write(installation.path("settings.yaml"), settings).unwrap();
    let settings = installation.path("settings.yaml").display().to_string();
    installation.serve(&["--settings".to_owned(), settings]).await;
    installation.until("network", "Succeeded", 2).await;
    for layer in ["orders", "shop"] {
        installation.until(layer, "Succeeded", 1).await;
    }
    (installation, repository)
}

#[tokio::test]
async fn tour_is_as_its_page_tells_it() {
    let provider = FilesProvider::unpack();
    let (installation, _repository) = installation(&provider).await;
    let site = installation.path("site");
    let visit = Visit::signed_in(&installation).await;
    let window = serde_json::json!({
        "width": SIZE.0, "height": SIZE.1, "deviceScaleFactor": 1, "mobile": false,
    });
    visit.browser.command("Emulation.setDeviceMetricsOverride", window).await;
    let mut tour = Tour { visit, pictures: Vec::new() };

    // From nothing to an approved apply.
    tour.visit.until_text("Waiting for approval").await;
    tour.picture("waiting", "body").await;
    tour.visit.click(".card a[href*='/runs/']").await;
    tour.visit.until("the plan", "document.querySelector('#changes .change') !== null").await;
    tour.picture("plan", "body").await;
    tour.visit.click("form[action$='/approve'] button").await;
    tour.visit.until_text("Apply complete").await;
    // Early, because the first check for drift follows the apply by seconds.
    std::fs::write(site.join("queue"), "retention = 1h").unwrap();
    tour.until_state("Succeeded").await;
    tour.picture("applied", "body").await;

    // Drift.
    tour.visit.click("#main a[href$='/layers/orders']").await;
    tour.visit.until_text("Something was changed outside").await;
    tour.picture("layer", "body").await;
    tour.visit.open("/").await;
    tour.visit.until("the alarm", "document.querySelector('.urgent.cancelled') !== null").await;
    tour.picture("drift", "body").await;
    tour.visit.click(".urgent.cancelled a[href*='/runs/']").await;
    tour.visit.until_text("retention = 1h").await;
    tour.visit
        .until("its heading", "document.querySelector('h2').textContent === 'What differs'")
        .await;
    tour.picture("differs", "body").await;

    // An apply that is cancelled.
    tour.visit.open("/layers/shop").await;
    tour.visit.click(".links a.primary").await;
    tour.visit.click("form[action$='/approve'] button").await;
    tour.visit.until_text("files_file.f2: Creating").await;
    tour.picture("running", "body").await;
    tour.visit.click("form[action$='/cancel'] button").await;
    tour.visit.until_text("Interrupt received").await;
    std::fs::write(site.join("gate"), "").unwrap();
    tour.until_state("Cancelled").await;
    tour.picture("cancelled", "body").await;
    let applied = ["page-1", "page-2", "page-3"].map(|name| site.join(name).exists());
    assert_eq!((applied, site.join("page-5").exists()), ([true; 3], false));
    tour.visit.was_quiet().await;
    assert_eq!(tour.pictures, pictures_of_the_page());
}
