//! Any bytes at the standard input of the MCP door: every line is a message or is passed over, and reading ends.
#![no_main]

use clawpen_gateway::mcp::stdio;
use libfuzzer_sys::fuzz_target;
use rmcp::transport::Transport as _;

fuzz_target!(|input: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut transport = stdio::transport(input, tokio::io::sink());
        let lines = input.iter().filter(|byte| **byte == b'\n').count();
        let mut messages = 0;
        while transport.receive().await.is_some() {
            messages += 1;
        }
        assert!(messages <= lines + 1);
    });
});
