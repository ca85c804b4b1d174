"""Groups of thousands of consumers, simulated, and small ones measured."""
