//! The format of Teams: an Adaptive Card, as a webhook of Workflows takes it.
//!
//! All texts are in `TextRun`, which is not Markdown. So no text makes a mention or a link.

use serde_json::{Value, json};

use super::message::Delivery;
use crate::config::NotificationEvent;

/// The body of a delivery.
pub(super) fn body(delivery: &Delivery) -> Value {
    let notification = &delivery.notification;
    let colour = match notification.event {
        NotificationEvent::Failed | NotificationEvent::Breaker | NotificationEvent::Checks => {
            "Attention"
        }
        NotificationEvent::Waiting | NotificationEvent::Drift => "Warning",
        NotificationEvent::Resolved | NotificationEvent::Applied => "Good",
    };
    let (title, size) = (&notification.title, "Medium");
    let title = json!({"type": "TextRun", "text": title, "weight": "Bolder", "size": size, "color": colour});
    let mut body = vec![paragraph(&title), plain(&notification.reason)];
    let facts = notification.facts();
    body.extend(facts.iter().map(|(name, value)| plain(&format!("{name}: {value}"))));
    let open = |url| json!({"type": "Action.OpenUrl", "title": "Show details", "url": url});
    let actions: Vec<Value> = delivery.page.iter().map(open).collect();
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
                "actions": actions,
            },
        }],
    })
}

fn plain(text: &str) -> Value {
    paragraph(&json!({"type": "TextRun", "text": text}))
}

fn paragraph(text: &Value) -> Value {
    json!({"type": "RichTextBlock", "inlines": [text]})
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::delivery;
    use super::*;

    #[test]
    fn message_is_a_card_whose_texts_are_not_interpreted() {
        let hostile = "[x](https://evil.example) <at>all</at>";
        let body = body(&delivery(hostile));
        let card = &body["attachments"][0]["content"];
        assert_eq!(card["type"], "AdaptiveCard");
        let text = |block: &Value| {
            assert_eq!(block["type"], "RichTextBlock");
            assert_eq!(block["inlines"][0]["type"], "TextRun");
            block["inlines"][0]["text"].as_str().unwrap().to_owned()
        };
        let texts: Vec<String> = card["body"].as_array().unwrap().iter().map(text).collect();
        let title = "net: plan waits for approval";
        let counts = "Changes: 3 to add, 1 to destroy";
        assert_eq!(texts, [title, hostile, "Layer: net", counts, "Commit: 01234567"]);
        assert_eq!(card["actions"][0]["url"], "https://butler.example.com/prefix/runs/r1");
        assert_eq!(card["actions"][0]["type"], "Action.OpenUrl");
    }
}
