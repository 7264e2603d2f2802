//! The format of Slack's incoming webhooks: a text for previews, and blocks.
//!
//! Texts are escaped, and Slack does not search them for names and addresses (`verbatim`). So no text makes a
//! mention or a link.

use serde_json::{Value, json};

use super::message::Delivery;
use crate::config::NotificationEvent;

/// The body of a delivery.
pub(super) fn body(delivery: &Delivery) -> Value {
    let notification = &delivery.notification;
    let title = escaped(&notification.title);
    let symbol = match notification.event {
        NotificationEvent::Failed | NotificationEvent::Breaker | NotificationEvent::Checks => {
            ":red_circle:"
        }
        NotificationEvent::Waiting | NotificationEvent::Drift => ":large_yellow_circle:",
        NotificationEvent::Resolved | NotificationEvent::Applied => ":large_green_circle:",
    };
    let mut lines = vec![format!("{symbol} *{title}*"), escaped(&notification.reason)];
    lines.extend(delivery.page.as_ref().map(|url| format!("<{}|Show details>", escaped(url))));
    let facts = notification.facts();
    let facts = facts.iter().map(|(name, value)| format!("{name}: {}", escaped(value)));
    let facts: Vec<String> = facts.collect();
    json!({
        "text": title,
        "blocks": [
            {"type": "section", "text": text(&lines.join("\n"))},
            {"type": "context", "elements": [text(&facts.join("  |  "))]},
        ],
    })
}

fn text(text: &str) -> Value {
    json!({"type": "mrkdwn", "text": text, "verbatim": true})
}

/// The text without the three characters that begin or end what Slack interprets.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::delivery;
    use super::*;

    #[test]
    fn message_has_a_text_blocks_and_a_link() {
        let body = body(&delivery("The plan is applied when a user approves it."));
        assert_eq!(body["text"], "net: plan waits for approval");
        assert_eq!(
            body["blocks"][0]["text"]["text"],
            ":large_yellow_circle: *net: plan waits for approval*\n\
             The plan is applied when a user approves it.\n\
             <https://butler.example.com/prefix/runs/r1|Show details>"
        );
        let facts = "Layer: net  |  Changes: 3 to add, 1 to destroy  |  Commit: 01234567";
        assert_eq!(body["blocks"][1]["elements"][0]["text"], facts);
    }

    #[test]
    fn text_makes_no_mention_and_no_link_in_slack() {
        let body =
            body(&delivery("<!channel> & <https://evil.example|x> https://evil.example @here"));
        let shown = &body["blocks"][0]["text"];
        let expected =
            "&lt;!channel&gt; &amp; &lt;https://evil.example|x&gt; https://evil.example @here";
        assert_eq!(shown["text"].as_str().unwrap().lines().nth(1), Some(expected));
        // Otherwise, Slack would make links of addresses and names.
        assert_eq!(shown["verbatim"], true);
        assert_eq!(body["blocks"][1]["elements"][0]["verbatim"], true);
    }
}
