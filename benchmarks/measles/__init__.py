"""Forecasts of measles in 1,422 towns, week by week: ours against forecasting libraries, on the same scores."""
