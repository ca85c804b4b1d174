"""What Prometheus, KEDA and Grafana read."""
