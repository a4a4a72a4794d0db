"""The rules: one a file. Each has ``find(scene, earlier)``, which returns its findings; ``earlier`` holds those of the
rules that go before it."""
