//! Providers that need no `baseUrl`, as data. What the config says about one of them wins.

use super::{Api, KeyNeed};

/// A provider that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub name: &'static str,
    pub api: Api,
    pub base_url: &'static str,
    /// Where its key is looked for if the config says nothing.
    pub variable: &'static str,
    pub key_need: KeyNeed,
}

const fn host(name: &'static str, base_url: &'static str, variable: &'static str) -> Known {
    let key_need = KeyNeed::Required;
    Known { name, api: Api::OpenAiCompletions, base_url, variable, key_need }
}

const PROVIDERS: &[Known] = &[
    Known {
        name: "anthropic",
        api: Api::AnthropicMessages,
        base_url: "https://api.anthropic.com",
        variable: "ANTHROPIC_API_KEY",
        key_need: KeyNeed::Required,
    },
    host("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Known {
        name: "google",
        api: Api::GoogleGenerativeAi,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        variable: "GEMINI_API_KEY",
        key_need: KeyNeed::Required,
    },
    Known {
        name: "ollama",
        api: Api::Ollama,
        base_url: "http://127.0.0.1:11434",
        variable: "OLLAMA_API_KEY",
        key_need: KeyNeed::Optional,
    },
    Known {
        name: "vllm",
        api: Api::OpenAiCompletions,
        base_url: "http://127.0.0.1:8000/v1",
        variable: "VLLM_API_KEY",
        key_need: KeyNeed::Optional,
    },
    host("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    host("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    host("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    host("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    host("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
];

/// The provider of this name.
pub fn known(name: &str) -> Option<&'static Known> {
    PROVIDERS.iter().find(|known| known.name == name)
}

/// All of them.
pub fn names() -> Vec<&'static str> {
    PROVIDERS.iter().map(|known| known.name).collect()
}
